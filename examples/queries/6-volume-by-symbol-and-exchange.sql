-- 6. Volume of every stock on every exchange.
select Symbol, Exchange, sum(Trade_Volume) as Volume
from trade
group by Symbol, Exchange
order by Symbol, Exchange
