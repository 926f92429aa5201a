"""Feed handlers: what venues send becomes rows.

All of them fill the same tables, so that one statement reads whatever was collected by whatever means:

========  ====================================================================================================
table     a row is
========  ====================================================================================================
trade     a trade
quote     a best bid and offer
book      the best levels of a book after an update: ``bid_price[1]`` is the best bid
change    a change of one price level of a book
funding   a funding rate of a perpetual contract
bar       open, high, low, close and volume of an interval
========  ====================================================================================================

Every row begins with ``ts_event`` (the venue's clock), ``symbol``, ``ts_recv`` (the clock of the machine that received it) and
``venue``. Times are nanoseconds in UTC, prices and sizes floats. Where a venue says no time, ``ts_event`` is ``ts_recv``.
"""
