// OpenMetrics text, as far as the console shows it.

export interface Sample {
  labels: Record<string, string>;
  value: number;
}

export class Metrics {
  private readonly samples = new Map<string, Sample[]>();

  constructor(text: string) {
    for (const line of text.split("\n")) {
      if (line.startsWith("#") || line === "") continue;
      const found = /^(\w+)(?:\{(.*)\})? (\S+)/.exec(line);
      if (!found) continue;
      const labels: Record<string, string> = {};
      for (const [, name, value] of (found[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
        labels[name!] = value!.replace(/\\(.)/g, (_, one: string) => (one === "n" ? "\n" : one));
      }
      const name = found[1]!.replace(/^splay_/, "");
      const list = this.samples.get(name) ?? [];
      list.push({ labels, value: Number(found[3]) });
      this.samples.set(name, list);
    }
  }

  all(name: string): Sample[] {
    return this.samples.get(name) ?? [];
  }

  /** The sum over all labels. */
  sum(name: string): number {
    return this.all(name).reduce((sum, sample) => sum + sample.value, 0);
  }
}

/** Below what a share of the values lies, by the counts of buckets that double from 10 µs on; seconds. */
export function quantile(counts: readonly number[], share: number): number {
  const all = counts.reduce((sum, count) => sum + count, 0);
  if (all === 0) return NaN;
  let below = 0;
  for (const [index, count] of counts.entries()) {
    below += count;
    // What is beyond all limits is counted last.
    if (below >= share * all) return index === counts.length - 1 ? Infinity : 10e-6 * 2 ** index;
  }
  return Infinity;
}
