// The AI SDK as a front end uses it. The argument is the package: "ai" (the newest major) or "ai-6".

const sdk = await import(process.argv[3] ?? "ai");

// The messages that the client's own reader makes of the chunks of streams: one list per stream.
export async function read({ streams }) {
  const messages = [];
  for (const chunks of streams) {
    let message;
    let failure;
    const stream = new ReadableStream({
      start(controller) {
        for (const chunk of chunks) controller.enqueue(chunk);
        controller.close();
      },
    });
    for await (const each of sdk.readUIMessageStream({ stream, onError: (error) => (failure ??= error) })) message = each;
    messages.push({ message: message ?? null, failure: failure ? String(failure.message ?? failure) : null });
  }
  return messages;
}
