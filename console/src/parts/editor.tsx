// The editor of statements: CodeMirror in a shadow root. There its styles are sheets of the document's own making, which the page's
// policy allows without 'unsafe-inline'.
import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, type Completion, type CompletionContext, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { keywordCompletionSource, PostgreSQL, SQLDialect } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState, Prec } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";
import { type FunctionInfo, proposals, type TableInfo } from "../completion";
import { type Statement, statementAt } from "../sql";
import { isDark } from "../store";

/** What the page does with the editor. */
export interface EditorHandle {
  text(): string;
  setText(text: string): void;
  /** Puts a text at the cursor. */
  insert(text: string): void;
  /** What is selected, or the statement at the cursor. */
  statement(): Statement | undefined;
  mark(from: number, to: number, message: string): void;
  clearMarks(): void;
  focus(): void;
}

interface Properties {
  initial: string;
  tables: TableInfo[];
  functions: FunctionInfo[];
  onRun: () => void;
  onCancel: () => void;
  onChange: (text: string) => void;
  onReady: (handle: EditorHandle) => void;
}

const dialect = SQLDialect.define({
  ...PostgreSQL.spec,
  keywords: `${PostgreSQL.spec.keywords ?? ""} asof sample latest qualify exclude replace pivot unpivot summarize tolerance explain analyze fill semi anti`,
  types: `${PostgreSQL.spec.types ?? ""} symbol timestamp levels float64 float32 int8 int16 int32 int64 text`,
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--code-keyword)", fontWeight: "600" },
  { tag: [tags.typeName, tags.standard(tags.name)], color: "var(--code-type)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
]);

const look = (dark: boolean) =>
  EditorView.theme(
    {
      "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--surface)", fontSize: "13.5px" },
      "&.cm-focused": { outline: "none" },
      ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
      ".cm-content": { caretColor: "var(--accent)", padding: "10px 0" },
      ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--muted)", border: "none" },
      ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--active-line)" },
      ".cm-cursor": { borderLeftColor: "var(--accent)" },
      "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection)" },
      ".cm-placeholder": { color: "var(--muted)" },
      ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "6px", overflow: "hidden" },
      ".cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "16em" },
      ".cm-tooltip-autocomplete > ul > li": { padding: "3px 8px" },
      ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
      ".cm-completionDetail": { color: "var(--muted)", fontStyle: "normal", marginLeft: "1em" },
      "li[aria-selected] .cm-completionDetail": { color: "var(--on-accent)" },
      ".cm-diagnostic": { padding: "6px 10px", borderLeft: "3px solid var(--bad)", whiteSpace: "pre-wrap", maxWidth: "60ch" },
      ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px" },
    },
    { dark },
  );

const allKeywords = keywordCompletionSource(dialect);

/** Keywords, but not behind a table's name and its dot. */
const keywords = (context: CompletionContext) => (context.matchBefore(/\.[\p{L}\p{N}_]*$/u) ? null : allKeywords(context));

/** Proposals from the tables and functions of the server. */
function propose(known: { tables: TableInfo[]; functions: FunctionInfo[] }) {
  return (context: CompletionContext) => {
    const word = context.matchBefore(/[\p{L}_][\p{L}\p{N}_]*$/u);
    const from = word?.from ?? context.pos;
    const qualifier = context.matchBefore(/"?([\p{L}_][\p{L}\p{N}_]*)"?\.[\p{L}\p{N}_]*$/u)?.text.split(".")[0]?.replaceAll('"', "") ?? null;
    if (!word && qualifier === null && !context.explicit) return null;
    const text = context.state.doc.toString();
    const statement = statementAt(text, context.pos);
    const start = statement?.from ?? 0;
    const options: Completion[] = proposals(statement?.text ?? "", text.slice(start, from), qualifier, known.tables, known.functions);
    return { from, options, validFor: /^[\p{L}\p{N}_]*$/u };
  };
}

export function Editor(properties: Properties) {
  const host = useRef<HTMLDivElement>(null);
  // The editor lives longer than a rendering: it calls what was given last.
  const last = useRef(properties);
  last.current = properties;

  useEffect(() => {
    const element = host.current!;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const theme = new Compartment();
    const source = (context: CompletionContext) => propose(last.current)(context);
    const run = () => {
      last.current.onRun();
      return true;
    };
    const view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: last.current.initial,
        extensions: [
          Prec.highest(
            keymap.of([
              { key: "Mod-Enter", run },
              { key: "Tab", run: acceptCompletion },
            ]),
          ),
          lineNumbers(),
          history(),
          drawSelection(),
          bracketMatching(),
          closeBrackets(),
          highlightActiveLine(),
          EditorView.lineWrapping,
          // `sql()` would bring keywords of its own.
          dialect.extension,
          dialect.language.data.of({ autocomplete: source }),
          dialect.language.data.of({ autocomplete: keywords }),
          autocompletion({ icons: false }),
          keymap.of([...closeBracketsKeymap, ...completionKeymap, ...defaultKeymap, ...historyKeymap, { key: "Escape", run: () => (last.current.onCancel(), true) }]),
          placeholder("select … from …"),
          syntaxHighlighting(colours),
          theme.of(look(isDark.value)),
          EditorView.contentAttributes.of({ "aria-label": "SQL statement. Control or Command and Enter runs it." }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) last.current.onChange(update.state.doc.toString());
          }),
        ],
      }),
    });
    const unfollow = isDark.follow((dark) => view.dispatch({ effects: theme.reconfigure(look(dark)) }));
    last.current.onReady(handle(view));
    return () => {
      unfollow();
      view.destroy();
    };
  }, []);
  return <div class="editor" ref={host} />;
}

function handle(view: EditorView): EditorHandle {
  const text = () => view.state.doc.toString();
  return {
    text,
    setText: (next) => {
      if (next !== text()) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next }, selection: { anchor: next.length } });
    },
    insert: (piece) => {
      view.dispatch(view.state.replaceSelection(piece));
      view.focus();
    },
    statement: () => {
      const { from, to } = view.state.selection.main;
      const selected = view.state.sliceDoc(from, to);
      return selected.trim() ? { text: selected.trim(), from: from + selected.indexOf(selected.trim()) } : statementAt(text(), from);
    },
    mark: (from, to, message) => view.dispatch(setDiagnostics(view.state, [{ from, to: Math.min(Math.max(to, from + 1), view.state.doc.length), severity: "error", message }])),
    clearMarks: () => view.dispatch(setDiagnostics(view.state, [])),
    focus: () => view.focus(),
  };
}
