"""What each kind of plan does when it runs: one handler per plan class, grouped by family."""
