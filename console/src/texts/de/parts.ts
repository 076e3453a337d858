export const parts = {
  close: "Schließen",
  retry: "Noch einmal",
  loading: "Wird geladen",
  event: (position: number) => `Ereignis ${position}`,
  eventsOf: (name: string) => `Ereignisse von ${name}`,
  copied: "Kopiert.",
  notCopied: "Der Browser lässt die Seite das nicht kopieren.",
  code: "Code",
  copyCode: "Code kopieren",
  copyId: (id: string) => `${id} kopieren`,
  image: "Bild",
  imageNotLoaded: "Bilder anderer Rechner werden nicht geladen; dies ist ein Link dorthin.",
  showMore: (left: number) => `mehr zeigen (noch ${left})`,
  done: "erledigt",
  notDone: "offen",
  download: (name: string) => `${name} herunterladen`,
  preview: (name: string) => `In ${name} hineinsehen`,
  tooLarge: "Sie ist zu groß, um hier gezeigt zu werden. Laden Sie sie herunter.",
  rows: (count: number) => (count === 1 ? "1 Zeile" : `${count} Zeilen`),
  rowsOf: (count: number, total: number) => `${count} von ${total} Zeilen`,
  moreText: (left: number) => `mehr zeigen (noch ${left} Zeichen)`,
  mayNot: {
    run: "Ihr Schlüssel darf hier lesen, nicht schreiben. Jemand mit der Rolle admin kann Ihnen einen anderen geben.",
    register:
      "Ihr Schlüssel darf keine Agentensysteme registrieren. Jemand mit der Rolle admin kann Ihnen einen anderen geben.",
  },
};

/** What the server says in English, by its code; only where its own words tell no more than these. */
const TOLD: Readonly<Record<string, string>> = {
  unknown_session: "Diese Sitzung gibt es nicht, oder sie wurde gelöscht.",
  unknown_agent_system: "Dieses Agentensystem gibt es nicht, oder es wurde gelöscht.",
  unknown_workflow: "Diesen Workflow gibt es nicht, oder er wurde gelöscht.",
  unknown_message: "Diese Nachricht gibt es nicht, oder sie wurde gelöscht.",
  unknown_file: "Diese Datei gibt es nicht, oder sie wurde gelöscht.",
  session_busy: "Es läuft schon etwas in dieser Sitzung. Senden Sie es noch einmal, wenn es zu Ende ist.",
  question_open: "Die Sitzung wartet auf Ihre Antwort auf eine Frage.",
  nothing_asked: "Es ist keine Frage offen.",
  not_asked: "Diese Frage ist nicht mehr offen.",
  which_question: "Mehrere Fragen sind offen. Beantworten Sie jede dort, wo sie im Chat gestellt wird.",
  not_a_run_end: "Abzweigen kann man nur, wo eine Antwort zu Ende ist.",
  not_now: "So, wie die Sitzung steht, geht das nicht. Laden Sie die Seite neu.",
  key_reused: "Das wurde schon mit anderen Worten gesendet. Schreiben Sie es neu.",
  nothing_said: "Hier ist keine Antwort, die neu gegeben werden könnte.",
  no_run_ended: "Abzweigen kann man erst, wenn die erste Antwort zu Ende ist.",
  unreadable:
    "Das ist ein Ordner oder eine Datei, die nicht mehr gelesen werden kann. Es werden nur Dateien angenommen.",
  system_gone:
    "Das Agentensystem dieser Sitzung wurde gelöscht. Registrieren Sie es wieder, oder beginnen Sie eine andere Sitzung.",
  too_large: "Das ist größer, als dieser Server es annimmt.",
  overloaded: "Es wartet schon zu viel. Versuchen Sie es gleich noch einmal.",
  storage_gone: "Der Server kann gerade nichts speichern; vielleicht startet er neu. Nichts ging verloren.",
  storage_full: "Der Speicher des Servers ist voll. Nichts wurde gespeichert.",
};

export const problems = {
  told: (code: string) => TOLD[code] ?? "",
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
