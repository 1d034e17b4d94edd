"""Does a part of a grid tell the whole grid's time?"""
