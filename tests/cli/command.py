"""`python -m tests.cli.command` is the command `reprise`, wherever it is installed."""

from infrastructure.cli import main

if __name__ == "__main__":
    main()
