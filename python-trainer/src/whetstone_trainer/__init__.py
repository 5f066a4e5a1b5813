"""The trainer service: reads sealed episodes, steps the optimizer, publishes weights and checkpoints."""
