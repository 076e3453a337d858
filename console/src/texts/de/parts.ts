export const parts = {
  close: "Schließen",
  retry: "Noch einmal",
  loading: "Wird geladen",
  event: (position: number) => `Ereignis ${position}`,
  copied: "Kopiert.",
  notCopied: "Der Browser lässt die Seite das nicht kopieren.",
  image: "Bild",
  imageNotLoaded: "Bilder anderer Rechner werden nicht geladen; dies ist ein Link dorthin.",
  showMore: (left: number) => `mehr zeigen (noch ${left})`,
  done: "erledigt",
  notDone: "offen",
  download: (name: string) => `${name} herunterladen`,
  preview: (name: string) => `In ${name} hineinsehen`,
  rows: (count: number) => (count === 1 ? "1 Zeile" : `${count} Zeilen`),
  rowsOf: (count: number, total: number) => `${count} von ${total} Zeilen`,
  moreText: (left: number) => `mehr zeigen (noch ${left} Zeichen)`,
};

export const problems = {
  unknown:
    "Etwas ist schiefgegangen. Versuchen Sie es noch einmal; hilft das nicht, steht mehr im Protokoll des Servers.",
  unreachable: "Der Server ist nicht erreichbar. Vielleicht startet er gerade neu; was Sie sehen, kann veraltet sein.",
  unauthorized: "Dieser Server verlangt einen Schlüssel, und es gibt keinen oder keinen gültigen.",
};

export const status = {
  idle: "neu",
  running: "läuft",
  completed: "fertig",
  failed: "gescheitert",
  stopped: "gestoppt",
  awaiting: "fragt Sie",
  asked: "hat gefragt",
};
