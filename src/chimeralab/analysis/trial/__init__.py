"""What a trial shows: sessions as numbers, measures, checks and effects."""
