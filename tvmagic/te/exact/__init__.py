"""What goes beyond TVM in TE's schedules: exact regions, tight splits, and counts of what is computed and used."""
