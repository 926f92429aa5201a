// The book of a symbol: its levels from the best outwards, with bars as long as the depth up to them.
import type { Book, Level } from "../book";
import { short } from "../format";

export function BookView({ book, title, at }: { book: Book; title: string; at: string }) {
  const [bid, ask] = [book.bids[0]?.price, book.asks[0]?.price];
  const deepest = Math.max(book.bids.at(-1)?.depth ?? 0, book.asks.at(-1)?.depth ?? 0);
  const [ofBids, ofAsks] = [book.bids.at(-1)?.depth ?? 0, book.asks.at(-1)?.depth ?? 0];
  const spread = bid !== undefined && ask !== undefined ? ask - bid : NaN;
  return (
    <div class="book padded" role="region" aria-label={`Book of ${title}`} tabIndex={0}>
      <div class="page-head">
        <h2>{title}</h2>
        <p class="hint">{at}</p>
      </div>
      <dl class="tiles">
        <Figure name="Bid" value={bid} />
        <Figure name="Ask" value={ask} />
        <Figure name="Spread" value={spread} />
        <Figure name="Middle" value={bid !== undefined && ask !== undefined ? (bid + ask) / 2 : NaN} />
        <Figure name="Imbalance" value={ofBids + ofAsks > 0 ? (ofBids - ofAsks) / (ofBids + ofAsks) : NaN} />
      </dl>
      <div class="book-sides">
        <Side name="Bids" levels={book.bids} deepest={deepest} />
        <Side name="Asks" levels={book.asks} deepest={deepest} />
      </div>
    </div>
  );
}

function Figure({ name, value }: { name: string; value: number | undefined }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value === undefined || Number.isNaN(value) ? "–" : Number(value.toPrecision(8))}</dd>
    </div>
  );
}

function Side({ name, levels, deepest }: { name: string; levels: Level[]; deepest: number }) {
  return (
    <table class={`book-side ${name.toLowerCase()}`}>
      <caption>{name}</caption>
      <thead>
        <tr>
          <th scope="col" class="right">
            Price
          </th>
          <th scope="col" class="right">
            Size
          </th>
          <th scope="col" class="right">
            Depth
          </th>
        </tr>
      </thead>
      <tbody>
        {levels.map((level) => (
          <tr>
            <td class="right price">{level.price}</td>
            <td class="right">{short(level.size)}</td>
            <td class="right depth">
              <span class="depth-bar" style={{ width: `${deepest > 0 ? (level.depth / deepest) * 100 : 0}%` }} />
              <span>{short(level.depth)}</span>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
