"""Sums of words in noncommuting letters, exact and in bulk: the private engine behind the Lie series.

A letter is a linear operator that is not taken apart, a word a product of letters, and a `Words` a linear combination of words
with rational coefficients. Words of one length and grade stand in columns of NumPy arrays:

    packing     a word as a number: its rank among all words of its length
    integers    columns of exact integers: 64 bits while a bound says that they suffice, Python's integers after that
    block       words of one length with their coefficients, listed or for every word of the length; collection in bulk
    graded      the blocks of a sum; products truncated by several gradings at once, linear combinations, filters, ranks
    ordered     ordered products of factors with letters of their own, which need no collection
    series      powers, exponential and logarithm
    brackets    right-nested commutators in bulk
    small       a dictionary from words to coefficients: for sums of a few words it is the faster form
    lyndon      Lie polynomials in the basis of Lyndon words
    reading     operators to words and back

No word above the wanted grade is formed, equal words are collected once, and the number of words is known before they are.
Nothing is kept between calls. `expand` does not rest on it: its result is a theorem, and the kernel computes that itself;
`truncation` is the same expansion by this engine, as a plain value. A `Series` counts, ranks and sums its terms without
listing them. NumPy is imported here and nowhere else in the algebra.
"""
