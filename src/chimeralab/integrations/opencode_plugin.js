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

export const LoopGuard = async ({ client }) => ({
  "chat.message": async ({ sessionID }, { parts }) => {
    const text = (parts || []).map((part) => part.text || "").join("\n")
    await ask({ event: "prompt", sessionID, text })
  },
  "tool.execute.before": async ({ tool, sessionID }, { args }) => {
    const found = await ask({ event: "call", sessionID, tool, args })
    if (found.action === "refuse") throw new Error(found.message)
  },
  "tool.execute.after": async ({ tool, sessionID, args }, result) => {
    const found = await ask({ event: "result", sessionID, tool, args, text: result.output })
    if (!found.action) return
    result.output = `${result.output}\n\n${found.message}`
    if (found.action === "stop") await client.session.abort({ path: { id: sessionID } })
  },
})
