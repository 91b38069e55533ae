"""The state machines of tests/index with many more examples."""

from hypothesis import settings

from tests.index import test_contents, test_measures, test_threads


class Contents(test_contents.Machine):
    """Any sequence of verbs."""


class Threads(test_threads.Machine):
    """Any sequence of verbs, on several threads."""


class Containment(test_measures.ContainmentMachine):
    """Any sequence of verbs, by containment."""


Contents.TestCase.settings = settings(max_examples=80, stateful_step_count=20, deadline=None)
Threads.TestCase.settings = settings(max_examples=80, stateful_step_count=8, deadline=None)
Containment.TestCase.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)
TestContents = Contents.TestCase
TestThreads = Threads.TestCase
TestContainment = Containment.TestCase
