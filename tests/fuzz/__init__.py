"""Coverage-guided fuzzing of every place where onceflow reads bytes that others may have made: ``make fuzz``.

``targets.py`` lists the places. ``watch.py`` says what must hold of each execution. ``mutations.py`` makes inputs;
``child.py`` gives one target to libFuzzer (by atheris), ``blind.py`` does without it. ``plants.py`` has faults that
must be found.
"""
