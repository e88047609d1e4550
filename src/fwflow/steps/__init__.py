"""Step sizes: schedules, line searches and momentum."""
