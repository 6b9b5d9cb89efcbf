"""runnel.planner.rules"""
