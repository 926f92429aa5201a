-- 5. Volume of every stock.
select Symbol, sum(Trade_Volume) as Volume
from trade
group by Symbol
order by Symbol
