"""runnel.runtime"""
