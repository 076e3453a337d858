import { memo } from "react";
import ReactMarkdown, { type Components, type ExtraProps } from "react-markdown";
import remarkGfm from "remark-gfm";
import { useTexts } from "../texts";
import { CodeBlock } from "./CodeBlock";
import { directions } from "./directions";
import { formulas } from "./formulas";
import { Icon } from "./Icon";
import { LongText } from "./LongText";
import { lineBreaks } from "./lineBreaks";
import { safeLink } from "./links";
import { PlainTextFallback } from "./PlainTextFallback";
import { isSlowMarkdown } from "./slowMarkdown";

/**
 * Untrusted Markdown from a model or a tool: HTML stays text, no image is fetched,
 * links lead only to the web or to mail, and a text that would block the page is shown as plain text.
 */
export const Markdown = memo(({ text }: { text: string }) => {
  if (isSlowMarkdown(text)) return <LongText text={text} />;
  return (
    <PlainTextFallback text={text}>
      <div className="prose break-words">
        <ReactMarkdown remarkPlugins={PLUGINS} components={COMPONENTS} urlTransform={(url) => safeLink(url) ?? ""}>
          {text}
        </ReactMarkdown>
      </div>
    </PlainTextFallback>
  );
});

const PLUGINS = [remarkGfm, formulas, lineBreaks, directions];

const COMPONENTS: Components = {
  h1: "h3", // the page has its own headings
  h2: "h4",
  h3: "h5",
  h4: "h6",
  h5: "h6",
  a: ({ href, children }) =>
    href ? (
      <a href={href} target="_blank" rel="noopener noreferrer nofollow">
        {children}
      </a>
    ) : (
      <span>{children}</span>
    ),
  img: ({ alt, src }) => <NoImage alt={alt ?? ""} address={typeof src === "string" ? src : ""} />,
  // A scrolling region must be focusable.
  table: ({ children, dir }) => (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
    <div tabIndex={0} dir={dir} className="overflow-x-auto">
      <table>{children}</table>
    </div>
  ),
  pre: ({ node, children }) => <CodeBlock {...codeIn(node)}>{children}</CodeBlock>,
  input: ({ checked }) => <Tick done={checked === true} />,
};

/** The code between the fences, and the first word after the opening fence. */
function codeIn(pre: ExtraProps["node"]): { language: string | undefined; text: string } {
  const [code] = pre?.children ?? [];
  if (code?.type !== "element") return { language: undefined, text: "" };
  const { className: names } = code.properties;
  const [inner] = code.children;
  return {
    language: Array.isArray(names) ? names[0]?.toString().replace("language-", "") : undefined,
    text: inner?.type === "text" ? inner.value.replace(/\n$/, "") : "",
  };
}

/** In a task list: a form checkbox would be disabled and unlabelled. */
function Tick({ done }: { done: boolean }) {
  const { parts } = useTexts();
  return (
    <span role="img" aria-label={done ? parts.done : parts.notDone}>
      {done ? "☑" : "☐"}
    </span>
  );
}

/** Loading an image would reveal this conversation to its host, so it becomes a link. */
function NoImage({ alt, address }: { alt: string; address: string }) {
  const { parts } = useTexts();
  const shown = (
    <>
      <Icon name="image" size={15} /> {alt || parts.image}
    </>
  );
  const look = "inline-flex items-center gap-1.5 rounded-md bg-sunken px-2 py-0.5 text-sm text-muted";
  return address ? (
    <a className={look} href={address} title={parts.imageNotLoaded} target="_blank" rel="noopener noreferrer nofollow">
      {shown}
    </a>
  ) : (
    <span className={look}>{shown}</span>
  );
}
