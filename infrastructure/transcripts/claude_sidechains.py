"""Sub-agents inside the file of the session that started them: each side chain is a child session.

Until sub-agents got files of their own, their records stood among their parent's, marked isSidechain. A
chain begins with the prompt its Task call gave; each further record names one of the chain as its parent.
"""

from collections import defaultdict, deque
from dataclasses import dataclass

from infrastructure.transcripts.claude_conversation import Conversation, Link
from infrastructure.transcripts.claude_ids import child_session_id
from infrastructure.transcripts.claude_records import Kind, Row
from infrastructure.transcripts.drafts import CallDraft
from infrastructure.transcripts.fields import as_object, as_text
from infrastructure.transcripts.ids import derived_id, usable_id

SPAWNING_TOOLS = frozenset({"Agent", "Task"})


@dataclass(frozen=True, slots=True)
class Spawn:
    """A call that starts a sub-agent."""

    by: Conversation
    call: CallDraft


class Sidechains:
    """The children found in one file, in the order they begin."""

    def __init__(self, main: Conversation) -> None:
        self._main = main
        self._chain_of: dict[str, Conversation] = {}
        self._chain_of_agent: dict[str, Conversation] = {}
        self._spawns: defaultdict[str, deque[Spawn]] = defaultdict(deque)
        self.conversations: list[Conversation] = []

    def called(self, by: Conversation, call: CallDraft) -> None:
        """Remember a call that may start a chain. Equal prompts start their chains in the calls' order."""
        prompt = as_text(as_object(call.payload.get("input")).get("prompt"))
        if call.called and call.tool_name in SPAWNING_TOOLS and prompt:
            self._spawns[prompt].append(Spawn(by, call))

    def of(self, row: Row, kind: Kind) -> Conversation:
        """The chain a record belongs to; a record whose parent is missing joins the latest one."""
        chain = self._chain_of_agent.get(row.agent_id) or self._chain_of.get(row.parent)
        if (
            chain is None
            and self.conversations
            and (row.parent or kind is not Kind.PROMPT)
            and not row.agent_id
        ):
            chain = self.conversations[-1]
        if chain is None:
            chain = self._begin(row)
        if row.agent_id:
            self._chain_of_agent[row.agent_id] = chain
        if row.uuid:
            self._chain_of[row.uuid] = chain
        return chain

    def _begin(self, row: Row) -> Conversation:
        ordinal = derived_id(self._main.session_id, "sidechain", len(self.conversations))
        agent = usable_id(row.agent_id) or usable_id(row.uuid) or ordinal
        spawns = self._spawns.get(row.text)
        spawn = spawns.popleft() if spawns else None
        chain = Conversation(
            session_id=child_session_id(self._main.session_id, agent),
            provider_session_id=row.agent_id,
            link=self._link(spawn),
            title=_title(spawn),
        )
        self.conversations.append(chain)
        return chain

    def _link(self, spawn: Spawn | None) -> Link:
        main = self._main
        if spawn is None:
            turn_id = main.turns.latest_id
            return Link(main.session_id, turn_id, "", main.session_id, turn_id)
        turn_id = spawn.call.turn_id or ""
        root_turn_id = turn_id if spawn.by is main else spawn.by.link.root_turn_id
        return Link(spawn.by.session_id, turn_id, spawn.call.message_id, main.session_id, root_turn_id)


def _title(spawn: Spawn | None) -> str:
    return as_text(as_object(spawn.call.payload.get("input")).get("description")) if spawn else ""
