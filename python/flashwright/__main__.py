"""`python -m flashwright` is the `flashwright` command."""

from flashwright.cli import main

if __name__ == "__main__":
    main()
