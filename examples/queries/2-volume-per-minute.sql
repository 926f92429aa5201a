-- 2. Volume of every stock, minute by minute.
select Symbol, time_bucket('1 minute', Time) as Minute, sum(Trade_Volume) as Volume
from trade
group by Symbol, Minute
order by Symbol, Minute
