"""Which turns the user took back.

Going back to an earlier point and typing again leaves the abandoned branch in the file: two prompts name
the same record as their parent, and the later one is the conversation. Only prompts count. Parallel tool
results and progress records fork the chain all the time, and roots (no parent) are no fork.
"""

from collections.abc import Iterable, Mapping

from infrastructure.transcripts.ids import usable_id


def rewound_turns(prompts: Iterable[tuple[str, str]], parents: Mapping[str, str]) -> frozenset[str]:
    """Turn ids of the abandoned prompts and of whatever descends from them.

    `prompts` are the uuids of the prompts with their parents'. `parents` maps the uuid of every record to
    its parent's, in file order: parents stand before children.
    """
    latest: dict[str, str] = {}
    abandoned: set[str] = set()
    for uuid, parent in prompts:
        if uuid and parent:
            if parent in latest:
                abandoned.add(latest[parent])
            latest[parent] = uuid
    if abandoned:
        abandoned.update(_descendants(abandoned, parents))
    return frozenset(usable_id(uuid) for uuid in abandoned)


def _descendants(ancestors: set[str], parents: Mapping[str, str]) -> set[str]:
    found = set(ancestors)
    for uuid, parent in parents.items():
        if parent in found:
            found.add(uuid)
    return found
