export const parts = {
  close: "Schließen",
  retry: "Erneut versuchen",
  loading: "Wird geladen",
  event: (position: number) => `Ereignis ${position}`,
  eventsOf: (name: string) => `Ereignisse von ${name}`,
  copied: "Kopiert.",
  notCopied: "Der Browser hat das Kopieren nicht erlaubt.",
  code: "Code",
  copyCode: "Code kopieren",
  copyId: (id: string) => `${id} kopieren`,
  image: "Bild",
  imageNotLoaded: "Bilder von anderen Hosts werden nicht geladen; der Link führt zum Bild.",
  showMore: (left: number) => `mehr anzeigen (noch ${left})`,
  addItem: "Hinzufügen",
  insertFile: "Datei einfügen",
  fileTooLarge: (name: string) =>
    `${name} ist größer als 90 kB. An die Nachricht anhängen, oder hochladen und die Id der Datei angeben.`,
  removeItem: (name: string) => `${name} entfernen`,
  done: "erledigt",
  notDone: "offen",
  download: (name: string) => `${name} herunterladen`,
  preview: (name: string) => `Vorschau von ${name}`,
  tooLarge: "Diese Datei ist zu groß für die Vorschau. Laden Sie sie herunter.",
  rows: (count: number) => (count === 1 ? "1 Zeile" : `${count} Zeilen`),
  rowsOf: (count: number, total: number) => `${count} von ${total} Zeilen`,
  moreText: (left: number) => `mehr anzeigen (noch ${left} Zeichen)`,
  mayNot: {
    run: "Ihr Schlüssel erlaubt nur Lesezugriff. Ein Administrator Ihres Mandanten kann einen anderen ausstellen.",
    register:
      "Ihr Schlüssel erlaubt das Registrieren von Agentensystemen nicht. Ein Administrator Ihres Mandanten kann einen anderen ausstellen.",
  },
};

/** German texts by error code, where the server's English text says no more than these. */
const BY_CODE: Readonly<Record<string, string>> = {
  unknown_session: "Sitzung nicht gefunden. Möglicherweise wurde sie gelöscht.",
  unknown_agent_system: "Agentensystem nicht gefunden. Möglicherweise wurde es gelöscht.",
  unknown_workflow: "Workflow nicht gefunden. Möglicherweise wurde er gelöscht.",
  unknown_message: "Nachricht nicht gefunden. Möglicherweise wurde sie gelöscht.",
  unknown_file: "Datei nicht gefunden. Möglicherweise wurde sie gelöscht.",
  session_busy: "In dieser Sitzung läuft bereits etwas. Senden Sie die Nachricht erneut, wenn der Lauf beendet ist.",
  question_open: "Die Sitzung wartet auf Ihre Antwort auf eine Frage.",
  nothing_asked: "Es ist keine Frage offen.",
  not_asked: "Diese Frage ist nicht mehr offen.",
  which_question: "Mehrere Fragen sind offen. Beantworten Sie jede einzeln im Chat.",
  not_a_run_end: "In einer neuen Sitzung fortfahren können Sie nur nach einer vollständigen Antwort.",
  not_now: "Das ist im aktuellen Zustand der Sitzung nicht möglich. Laden Sie die Seite neu.",
  key_reused: "Das wurde bereits mit anderem Inhalt gesendet. Schreiben Sie die Nachricht neu.",
  nothing_said: "Hier gibt es keine Antwort, die neu generiert werden könnte.",
  no_run_ended: "In einer neuen Sitzung fortfahren können Sie erst nach der ersten vollständigen Antwort.",
  unreadable: "Das ist ein Ordner oder eine nicht lesbare Datei. Nur Dateien können angehängt werden.",
  system_gone:
    "Das Agentensystem dieser Sitzung wurde gelöscht. Registrieren Sie es erneut oder starten Sie eine andere Sitzung.",
  too_large: "Das ist größer, als dieser Server zulässt.",
  overloaded: "Der Server ist überlastet. Versuchen Sie es in Kürze erneut.",
  storage_gone:
    "Der Server kann derzeit nichts speichern; möglicherweise startet er neu. Es ist nichts verloren gegangen.",
  storage_full: "Der Speicher des Servers ist voll. Es wurde nichts gespeichert.",
};

export const problems = {
  byCode: (code: string) => BY_CODE[code] ?? "",
  unknown:
    "Etwas ist schiefgegangen. Versuchen Sie es erneut; wenn das nicht hilft, finden Sie mehr im Protokoll des Servers.",
  unreachable: "Der Server ist nicht erreichbar. Möglicherweise startet er neu; die Anzeige kann veraltet sein.",
  unauthorized: "Dieser Server erfordert einen API-Schlüssel. Ihrer fehlt oder ist ungültig.",
};

export const status = {
  idle: "neu",
  running: "läuft",
  completed: "fertig",
  failed: "fehlgeschlagen",
  stopped: "gestoppt",
  awaiting: "wartet auf Sie",
  asked: "hat gefragt",
};
