import type { ToolResult } from "@stellwerk/client";
import { DataTable } from "./DataTable";
import { FilePreview } from "./FilePreview";
import { storedFile } from "./files";
import { JsonTree } from "./JsonTree";
import { LongText } from "./LongText";

/** A tool result, rendered by its kind. `name`: the tool. */
export function ResultView({ result, name }: { result: ToolResult; name: string }) {
  switch (result.kind) {
    case "table":
      return <DataTable label={name} columns={result.columns} rows={result.rows} total={result.total} />;
    case "file_ref": {
      const { document_id: id, filename, mime, size } = result;
      return <FilePreview file={storedFile(id, filename, mime, size)} />;
    }
    case "json":
      return <JsonTree value={result.data} depth={2} />;
    case "text":
      return <LongText text={result.text} />;
    default:
      return <JsonTree value={result satisfies never} depth={2} />;
  }
}
