"""What a CINN schedule can do, a file for each subject; `IRSchedule` has them as methods."""
