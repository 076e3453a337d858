import { Component, type ReactNode } from "react";
import { LongText } from "./LongText";

/** Shows a text as it is if what would show it better breaks down: no text takes the page away from its reader. */
export class Unbroken extends Component<{ text: string; children: ReactNode }, { isBroken: boolean }> {
  override state = { isBroken: false };

  static getDerivedStateFromError() {
    return { isBroken: true };
  }

  override render() {
    return this.state.isBroken ? <LongText text={this.props.text} /> : this.props.children;
  }
}
