"""runnel.planner"""
