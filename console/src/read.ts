// Reads an Arrow stream as it comes, up to what a page can hold.
import { RecordBatchReader, type RecordBatch, tableFromIPC } from "apache-arrow";
import { Answer } from "./answer";

/** Rows and bytes of an answer that a page holds; the rest isn't read. */
export const ROWS_MAX = 1_000_000;
export const BYTES_MAX = 512_000_000;

export interface Progress {
  rows: number;
  bytes: number;
}

export async function readAnswer(body: ReadableStream<Uint8Array>, onProgress: (progress: Progress) => void): Promise<Answer> {
  let bytes = 0;
  const counted = body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.byteLength;
        controller.enqueue(chunk);
      },
    }),
  );
  const reader = await RecordBatchReader.from(counted as unknown as AsyncIterable<Uint8Array>);
  await reader.open();
  // The reader forgets it at the end of the stream.
  const { schema } = reader;
  const batches: RecordBatch[] = [];
  let rows = 0;
  let isCut = false;
  for await (const batch of reader) {
    if (batch.numRows === 0) continue;
    batches.push(batch);
    rows += batch.numRows;
    onProgress({ rows, bytes });
    if (rows >= ROWS_MAX || bytes >= BYTES_MAX) {
      isCut = true;
      break;
    }
  }
  const answer = new Answer(schema, batches);
  answer.bytes = bytes;
  answer.isCut = isCut;
  return answer;
}

/** One message of a subscription: a whole stream, whose schema says what the update is. */
export interface Update {
  table: string;
  sequence: string;
  kind: "snapshot" | "snapshot_part" | "delta" | "end";
  more: boolean;
  rows: Answer;
}

export function readUpdate(message: ArrayBuffer): Update {
  const table = tableFromIPC(new Uint8Array(message));
  const said = (key: string) => table.schema.metadata.get(`splay.${key}`) ?? "";
  return {
    table: said("table"),
    sequence: said("sequence"),
    kind: said("kind") as Update["kind"],
    more: said("more") === "true",
    rows: new Answer(table.schema, table.batches.filter((batch) => batch.numRows > 0)),
  };
}
