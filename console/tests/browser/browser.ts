// Chromium, with nothing but pages of the server: a request to any other host fails the test that made it.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { violations } from "./axe";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { expect } from "vitest";

export async function launch(): Promise<Browser> {
  return await chromium.launch({
    executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/** A page, and what it must not have done when it is over. */
export class Visit {
  readonly faults: string[] = [];
  /** Another host that the page may lead to. */
  elsewhere: string | null = null;

  private constructor(
    readonly page: Page,
    readonly url: string,
  ) {
    page.on("console", (message) => {
      // Failed requests are part of what is tested.
      if (message.type() === "error" && !/Failed to load resource|WebSocket connection|ERR_/.test(message.text())) this.faults.push(message.text());
    });
    page.on("pageerror", (error) => this.faults.push(String(error)));
    page.on("request", (request) => {
      if (this.elsewhere !== null && request.isNavigationRequest() && request.url().startsWith(this.elsewhere)) return;
      if (!request.url().startsWith(url) && !/^(data|blob):/.test(request.url())) this.faults.push(`a request to ${request.url()}`);
    });
  }

  static async open(browser: Browser, url: string, fragment = "", options: BrowserContextOptions = {}): Promise<Visit> {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, timezoneId: "UTC", ...options });
    const visit = new Visit(await context.newPage(), url);
    visit.page.setDefaultTimeout(10_000);
    await visit.page.goto(`${url}/${fragment}`);
    return visit;
  }

  /** Puts a statement into the editor, and runs it by the keyboard. */
  async run(sql: string): Promise<void> {
    await this.type(sql);
    await this.page.keyboard.press("Control+Enter");
  }

  async type(sql: string): Promise<void> {
    await this.page.locator(".cm-content").click();
    await this.page.keyboard.press("Control+a");
    // Text over coloured text would make Chromium try to keep the colour by a style of its own, which the policy refuses.
    await this.page.keyboard.press("Backspace");
    await this.page.keyboard.insertText(sql);
    // A list of proposals would take the next key.
    await this.page.keyboard.press("Escape");
  }

  /** What axe finds wrong with the page as it is. */
  async checkAccess(name: string): Promise<void> {
    expect(await violations(this.page), `axe: ${name}`).toEqual([]);
  }

  /** A picture, where SPLAY_PICTURES names a folder for them. */
  async picture(name: string): Promise<void> {
    const folder = process.env["SPLAY_PICTURES"];
    if (!folder) return;
    mkdirSync(folder, { recursive: true });
    await this.page.screenshot({ path: join(folder, `${name}.png`) });
  }

  async close(): Promise<void> {
    await this.page.context().close();
    expect(this.faults).toEqual([]);
  }
}
