// The part of the address behind `#`: which page, and what it shows. It never leaves the browser.

export type Page = "query" | "tables" | "live" | "server";

export interface Place {
  page: Page;
  /** The rest of the path: the table of `#/tables/trade`. */
  name: string;
  parameters: URLSearchParams;
}

const PAGES: Page[] = ["query", "tables", "live", "server"];

export function parse(fragment: string): Place {
  const [path = "", query = ""] = fragment.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [first = "", ...rest] = path.split("/");
  const page = PAGES.find((page) => page === first) ?? "query";
  return { page, name: decode(rest.join("/")), parameters: new URLSearchParams(query) };
}

export function link(page: Page, name = "", parameters: Record<string, string | undefined> = {}): string {
  const given = Object.entries(parameters).filter((entry): entry is [string, string] => Boolean(entry[1]));
  const query = new URLSearchParams(given).toString();
  return `#/${page}${name ? `/${encodeURIComponent(name)}` : ""}${query ? `?${query}` : ""}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
