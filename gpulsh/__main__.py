"""`python -m gpulsh` is the command `gpulsh`."""

import sys

from gpulsh.cli import main

if __name__ == "__main__":
    sys.exit(main())
