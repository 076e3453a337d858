"""What a workplan says: to its planner, to the agents that do tasks, and to the user, in the user's language.

Words for people come from a table by language; a language that is not in it gets
English. Agents are also told in which language to answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from stellwerk.documents.reading.summaries import LANGUAGES

PLANNER = """\
You are the project manager. Work out what the user wants, and plan who does what.

Agents that you may give tasks to:
{agents}

Documents that are there:
{documents}

Reply with one JSON object and nothing else. Write objUserResponse and all prompts in the language of the user.
A task reads what another one writes by naming it among its inputDocuments; "*" stands for all documents that the user
gave. Each final document is written by exactly one task, under exactly its name. Without anything to do, leave
objWorkplan empty and answer in objUserResponse.

The JSON Schema of your reply:
{schema}"""

AGAIN = """\
Your plan was not accepted: {objection}.
Reply with the corrected JSON object and nothing else."""


@dataclass(frozen=True, slots=True)
class Words:
    """One language."""

    inputs: str = "Documents for this task:"
    outputs: str = "Save these documents, under exactly these names:"
    answer_is_output: str = "Your whole answer will be saved as {name}."
    language: str = "Answer, and write documents, in this language: {language}."
    done: str = "Done."
    failed: str = "The task of {agent} has failed: {reason}"
    delivered: str = "Delivered:"
    missing: str = "Missing:"
    nothing: str = "No documents were delivered."
    failures: str = "Tasks that have failed:"
    all_there: str = "Everything that was expected is there."
    some_there: str = "{there} of {count} expected documents are there."


_GERMAN = Words(
    inputs="Dokumente für diese Aufgabe:",
    outputs="Speichere diese Dokumente, genau unter diesen Namen:",
    answer_is_output="Deine ganze Antwort wird als {name} gespeichert.",
    language="Antworte und schreibe Dokumente in dieser Sprache: {language}.",
    done="Erledigt.",
    failed="Die Aufgabe von {agent} ist gescheitert: {reason}",
    delivered="Geliefert:",
    missing="Es fehlt:",
    nothing="Es wurden keine Dokumente geliefert.",
    failures="Gescheiterte Aufgaben:",
    all_there="Alles, was erwartet wurde, ist da.",
    some_there="{there} von {count} erwarteten Dokumenten sind da.",
)
_FRENCH = Words(
    inputs="Documents pour cette tâche :",
    outputs="Enregistre ces documents, sous ces noms exactement :",
    answer_is_output="Ta réponse entière sera enregistrée sous {name}.",
    language="Réponds et écris les documents dans cette langue : {language}.",
    done="C'est fait.",
    failed="La tâche de {agent} a échoué : {reason}",
    delivered="Livré :",
    missing="Il manque :",
    nothing="Aucun document n'a été livré.",
    failures="Tâches échouées :",
    all_there="Tout ce qui était attendu est là.",
    some_there="{there} des {count} documents attendus sont là.",
)
_ITALIAN = Words(
    inputs="Documenti per questo compito:",
    outputs="Salva questi documenti, esattamente con questi nomi:",
    answer_is_output="Tutta la tua risposta sarà salvata come {name}.",
    language="Rispondi e scrivi i documenti in questa lingua: {language}.",
    done="Fatto.",
    failed="Il compito di {agent} è fallito: {reason}",
    delivered="Consegnati:",
    missing="Mancano:",
    nothing="Nessun documento è stato consegnato.",
    failures="Compiti falliti:",
    all_there="Tutto ciò che era atteso è presente.",
    some_there="{there} dei {count} documenti attesi sono presenti.",
)
_WORDS = {"en": Words(), "de": _GERMAN, "fr": _FRENCH, "it": _ITALIAN}


def words_for(language: str) -> Words:
    """By a code such as ``de`` or ``de-CH``."""
    return _WORDS.get(_code(language), _WORDS["en"])


def _code(language: str) -> str:
    return language.replace("_", "-").partition("-")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class Job:
    """A task as its agent gets it."""

    prompt: str
    inputs: Sequence[str] = ()
    """Documents, a line each."""
    outputs: Sequence[str] = ()
    """Names of documents that are expected."""
    can_save: bool = True
    """The agent has a tool to save documents with."""

    def text(self, language: str) -> str:
        words = words_for(language)
        parts = [self.prompt.strip()]
        if self.inputs:
            parts.append("\n".join([words.inputs, *self.inputs]))
        if self.outputs and self.can_save:
            parts.append("\n".join([words.outputs, *(f"- {name}" for name in self.outputs)]))
        elif len(self.outputs) == 1:
            parts.append(words.answer_is_output.format(name=self.outputs[0]))
        if code := _code(language):
            parts.append(words.language.format(language=LANGUAGES.get(code, code)))
        return "\n\n".join(parts)


@dataclass(frozen=True, slots=True)
class Review:
    """What was expected, and what is there: facts, whatever anybody says about them."""

    expected: Sequence[str] = ()
    delivered: Sequence[str] = ()
    """Names, those that nobody expected included."""
    failures: Sequence[tuple[str, str]] = ()
    """Agents whose task has failed, and why."""
    replies: Sequence[str] = field(default_factory=tuple)
    """What the last tasks said; the answer, if no document is."""

    def text(self, language: str) -> str:
        words, there = words_for(language), {name.casefold() for name in self.delivered}
        missing = [name for name in self.expected if name.casefold() not in there]
        parts = list(self.replies) if not self.expected else []
        if self.expected:
            count = len(self.expected)
            summed = words.some_there if missing else words.all_there
            parts.append(summed.format(count=count, there=count - len(missing)))
        if self.delivered:
            parts.append(_listed(words.delivered, self.delivered))
        elif self.expected:
            parts.append(words.nothing)
        if missing:
            parts.append(_listed(words.missing, missing))
        if self.failures:
            parts.append(_listed(words.failures, [f"{agent}: {reason}" for agent, reason in self.failures]))
        return "\n\n".join(part for part in parts if part) or words.done


def _listed(head: str, names: Sequence[str]) -> str:
    return "\n".join([head, *(f"- {name}" for name in names)])
