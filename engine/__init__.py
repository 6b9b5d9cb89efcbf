"""runnel"""
