"""runnel.expressions"""
