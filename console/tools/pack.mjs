// Packs what `vite build` has made into `embedded/`, from where the program takes it. Files that are there already stay as they
// are, so that Cargo builds nothing again. Refuses a console beyond its size, and a page that would break its own policy.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const BYTES_MAX = 1_500_000;
const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const [built, packed] = [join(root, "dist"), join(root, "embedded")];

const files = (folder) =>
  readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));

const page = readFileSync(join(built, "index.html"), "utf8");
if (/<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=|https?:\/\//i.test(page)) {
  throw new Error("index.html has a script, a style or an address that the policy of the page refuses");
}

let bytes = 0;
const made = new Set(["README.md"]);
for (const name of files(built).filter((name) => !name.startsWith("."))) {
  const target = join(packed, `${name}.gz`);
  const content = gzipSync(readFileSync(join(built, name)), { level: 9 });
  bytes += content.length;
  made.add(`${name}.gz`);
  let before = null;
  try {
    before = readFileSync(target);
  } catch {
    mkdirSync(dirname(target), { recursive: true });
  }
  if (before === null || !before.equals(content)) writeFileSync(target, content);
}
for (const name of files(packed)) {
  if (!made.has(name)) rmSync(join(packed, name));
}
console.log(`console: ${made.size - 1} files, ${(bytes / 1000).toFixed(0)} kB packed`);
if (bytes > BYTES_MAX) throw new Error(`the packed console has ${bytes} bytes; ${BYTES_MAX} are allowed`);
