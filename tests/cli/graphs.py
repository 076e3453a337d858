"""A file with graphs, as an operator may have one."""

GRAPH = '''
"""Nothing in this file knows of Stellwerk."""
import sys, time
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

def reply(state):
    text = state["messages"][-1].text
    print("thinking about", text, end="\\n" * ("loud" not in text))
    if "loud" in text:
        sys.stdout.buffer.write(b", loudly")
    if "exit" in text:
        sys.exit("enough")
    if "boom" in text:
        return {"messages": [AIMessage(1 / 0)]}
    if "sure" in text:
        return {"messages": [AIMessage(f"So: {interrupt('Are you sure?')}")]}
    return {"messages": [AIMessage(f"You say {text}, I say hello.")]}

async def block(state):
    open("blocking", "w").close()
    time.sleep(600)

def made(node):
    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile()

graph = made(reply)
blocked = made(block)

def leaving():
    sys.exit("enough")
'''
