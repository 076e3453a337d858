import { Card } from "../../parts/Card";
import { useTexts } from "../../texts";
import { DocumentRow } from "./DocumentRow";
import type { Made } from "./documents";

/** The documents created so far. */
export function Results({ made, working }: { made: readonly Made[]; working: boolean }) {
  const { workflows: words } = useTexts();
  return (
    <Card title={words.results}>
      {made.length ? (
        <ul aria-label={words.results} className="space-y-2">
          {made.map(({ document, agent }) => (
            <DocumentRow key={document.name + document.ext} document={document} note={agent} />
          ))}
        </ul>
      ) : (
        <p className="text-sm text-muted">{working ? words.noResultsYet : words.noResults}</p>
      )}
    </Card>
  );
}
