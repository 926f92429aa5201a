-- 4. The prints of a stock that carry condition O, over all dates.
select *
from trade
where Symbol = 'AAPL'
  and Sale_Condition like '%O%'
