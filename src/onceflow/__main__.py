"""``python -m onceflow``: the command line.

Must not know: any command.
"""

from onceflow.cli.main import main

if __name__ == "__main__":
    main()
