// The console's icons: lines on a grid of 20, drawn here.
const PATHS = {
  brand: "M5 3v14M10 2v16M15 4v13M3.5 6.5h3v6h-3zM8.5 5h3v5h-3zM13.5 9h3v5h-3z",
  query: "M4 6l4 4-4 4M10 15h6",
  tables: "M3 4h14v12H3zM3 8h14M3 12h14M8 8v8",
  live: "M2 11h3l2.5-6 4 11L14 8l1 3h3",
  server: "M3 4h14v5H3zM3 11h14v5H3zM6 6.5h.01M6 13.5h.01",
  run: "M6 4l10 6-10 6z",
  stop: "M5 5h10v10H5z",
  link: "M8 12l4-4M7 9l-2 2a2.8 2.8 0 0 0 4 4l2-2M13 11l2-2a2.8 2.8 0 0 0-4-4L9 7",
  save: "M5 3h10v14l-5-4-5 4z",
  sun: "M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM10 2v2M10 16v2M2 10h2M16 10h2M4.5 4.5l1.3 1.3M14.2 14.2l1.3 1.3M4.5 15.5l1.3-1.3M14.2 5.8l1.3-1.3",
  moon: "M16 12.5A7 7 0 0 1 7.5 4a7 7 0 1 0 8.5 8.5z",
  system: "M3 4h14v9H3zM7 17h6M10 13v4",
  leave: "M8 4H4v12h4M12 6l4 4-4 4M16 10H8",
  download: "M10 3v9M6 8l4 4 4-4M4 16h12",
  copy: "M7 7h9v10H7zM4 13V3h9",
  remove: "M5 5l10 10M15 5L5 15",
  panel: "M3 4h14v12H3zM8 4v12",
  refresh: "M16 10a6 6 0 1 1-2-4.5M16 3v3.5h-3.5",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class={`icon icon-${name}`} viewBox="0 0 20 20" width="18" height="18" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
