"""The parts of `scripts/bench`: repositories to measure, ways to measure, and one module for each section."""
