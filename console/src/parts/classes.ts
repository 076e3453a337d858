/** Class names that are there, in one text. */
export const classes = (...names: (string | false | null | undefined)[]): string => names.filter(Boolean).join(" ");
