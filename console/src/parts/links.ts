const SCHEMES = new Set(["http:", "https:", "mailto:"]);

/** The address that a text may link to, or null. Relative links are rejected: a text has no base address. */
export function safeLink(address: string | undefined): string | null {
  if (!address || !URL.canParse(address)) return null;
  const url = new URL(address);
  return SCHEMES.has(url.protocol) ? url.href : null;
}
