// The loop guard of Chimera Lab for opencode: put this file into .opencode/plugins.
// It passes each tool call and prompt to `chimera hook opencode`, and does what the reply says.
import { spawn } from "node:child_process"

const COMMAND = (process.env.CHIMERA_HOOK || "chimera hook opencode").split(" ")

function ask(event) {
  return new Promise((done) => {
    const child = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "pipe", "ignore"] })
    const timer = setTimeout(() => child.kill(), 10000)
    let said = ""
    const finish = () => {
      clearTimeout(timer)
      try {
        done(JSON.parse(said || "{}"))
      } catch {
        done({})
      }
    }
    child.stdout.on("data", (data) => (said += data))
    child.on("error", () => done({}))
    child.on("close", finish)
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(event))
  })
}

export const LoopGuard = async ({ client }) => {
  const ended = new Set() // failed or refused calls that have been judged
  const nudges = new Map() // what to say about a failed call
  let judging = Promise.resolve()

  const judge = async (sessionID, tool, args, text, failed) => {
    const found = await ask({ event: "result", sessionID, tool, args, text, failed })
    if (found.action === "stop") await client.session.abort({ path: { id: sessionID } })
    return found.action && found.message
  }

  return {
    "chat.message": async ({ sessionID }, { parts }) => {
      const said = (parts || []).filter((part) => part.type === "text" && !part.synthetic)
      await ask({ event: "prompt", sessionID, text: said.map((part) => part.text).join("\n") })
    },
    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
      const found = await ask({ event: "call", sessionID, tool, args })
      if (found.action !== "refuse") return
      ended.add(callID)
      throw new Error(found.message)
    },
    "tool.execute.after": async ({ tool, sessionID, args }, result) => {
      // The result of a tool of an MCP server has contents instead of an output.
      const text = result.output ?? JSON.stringify(result.content ?? "")
      const said = await judge(sessionID, tool, args, text, result.isError)
      if (!said) return
      if (result.content) result.content.push({ type: "text", text: said })
      else result.output = `${result.output}\n\n${said}`
    },
    // After a tool that throws, only this event is sent; nobody waits for what it does.
    event: async ({ event }) => {
      const part = event.type === "message.part.updated" ? event.properties.part : {}
      if (part.type !== "tool" || part.state.status !== "error" || ended.has(part.callID)) return
      ended.add(part.callID)
      const { sessionID, tool, callID, state } = part
      const told = judge(sessionID, tool, state.input, state.error, true)
      judging = Promise.all([judging, told.then((said) => said && nudges.set(callID, said))])
      await judging
    },
    "experimental.chat.messages.transform": async (_, { messages }) => {
      await judging
      for (const part of messages.flatMap((message) => message.parts)) {
        const said = part.type === "tool" && part.state.error && nudges.get(part.callID)
        if (said && !part.state.error.includes(said)) part.state.error += `\n\n${said}`
      }
    },
  }
}
