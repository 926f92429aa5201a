-- 7. Spread and size of the quotes beside range and VWAP of the trades, by stock and exchange; a pair that only one table has is kept.
select coalesce(q.Symbol, t.Symbol) as Symbol, coalesce(q.Exchange, t.Exchange) as Exchange,
       avgspread, avgsize, maxprice, minprice, vwap
from (
  select Symbol, Exchange,
         avg(Offer_Price - Bid_Price) as avgspread,
         0.5 * avg(Offer_Size + Bid_Size) as avgsize
  from quote
  group by Symbol, Exchange
) as q
full outer join (
  select Symbol, Exchange,
         max(Trade_Price) as maxprice,
         min(Trade_Price) as minprice,
         vwap(Trade_Price, Trade_Volume) as vwap
  from trade
  group by Symbol, Exchange
) as t on q.Symbol = t.Symbol and q.Exchange = t.Exchange
order by Symbol, Exchange
