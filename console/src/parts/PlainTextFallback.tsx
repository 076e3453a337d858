import { Component, type ReactNode } from "react";
import { LongText } from "./LongText";

/** An error boundary that shows the plain text if its rendered form fails. */
export class PlainTextFallback extends Component<{ text: string; children: ReactNode }, { isBroken: boolean }> {
  override state = { isBroken: false };

  static getDerivedStateFromError() {
    return { isBroken: true };
  }

  override render() {
    return this.state.isBroken ? <LongText text={this.props.text} /> : this.props.children;
  }
}
