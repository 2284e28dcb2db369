"""`python -m gradicon` is the command line."""

from gradicon.cli import main

if __name__ == "__main__":
    main()
