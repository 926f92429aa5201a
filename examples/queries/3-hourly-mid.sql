-- 3. Mean mid price of every stock, hour by hour; each quote counts once.
select Symbol, time_bucket('1 hour', Time) as Hour, avg(0.5 * (Bid_Price + Offer_Price)) as Mid
from quote
group by Symbol, Hour
order by Symbol, Hour
