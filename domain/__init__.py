"""Facts and rules of recorded coding-agent sessions; knows no library but pydantic and no outside world."""
