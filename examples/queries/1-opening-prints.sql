-- 1. The opening prints of a stock in one session: one date, one symbol, a condition code, 09:30 to 16:00 in New York.
select *
from trade
where date = '2019-10-07'
  and Symbol = 'AAPL'
  and Sale_Condition like '%O%'
  and Time between timestamptz '2019-10-07 09:30:00-04:00' and timestamptz '2019-10-07 16:00:00-04:00'
