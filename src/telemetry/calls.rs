//! Makes the spans of calls, and of the agents that tasks are given to.

use std::time::SystemTime;

use opentelemetry::KeyValue;
use opentelemetry::trace::SpanKind;

use super::fold::{Fold, Made};
use super::metrics::Measurement;
use super::span::{Call, Open, Task, cut, millis};
use crate::event::{DecisionRecord, PermissionDenial, ToolResult};
use crate::tool_name::{ToolId, server_and_tool};

impl Fold {
    pub(super) fn call(&mut self, id: &str, tool: &str, at: SystemTime) -> &mut Call {
        let agent = self.agent();
        self.calls.entry(id.to_owned()).or_insert_with(|| Call {
            tool: tool.to_owned(),
            agent,
            begun: at,
            arguments: String::new(),
            subagent: None,
            decision: None,
            is_denied: false,
        })
    }

    pub(super) fn decided(&mut self, decision: &DecisionRecord, at: SystemTime, made: &mut Made) {
        made.span = self.trace.call(&decision.call_id);
        let call = self.call(&decision.call_id, &decision.tool, at);
        call.begun = at;
        call.tool.clone_from(&decision.tool);
        call.decision = Some(Box::new(decision.clone()));
    }

    pub(super) fn denied(&mut self, denial: &PermissionDenial, at: SystemTime, made: &mut Made) {
        made.span = self.trace.call(&denial.tool_use_id);
        self.call(&denial.tool_use_id, &denial.tool_name, at).is_denied = true;
        self.sums.denials += 1;
        let mut about = vec![KeyValue::new("gen_ai.tool.name", denial.tool_name.clone())];
        about.push(KeyValue::new("qwen.policy.rule", denial.rule.clone().unwrap_or_else(|| "default".to_owned())));
        made.measurements.push(Measurement::denial(about));
    }

    pub(super) fn result(&mut self, result: &ToolResult, at: SystemTime, made: &mut Made) {
        let has_agent = self.tasks.iter().any(|task| task.call == result.call_id);
        while self.tasks.iter().any(|task| task.call == result.call_id) {
            self.leave(at, made);
        }
        self.call(&result.call_id, &result.tool, at);
        let Some(call) = self.calls.remove(&result.call_id) else { return };
        let command = self.command.take();
        let took = at - millis(result.duration_ms);
        // A call waits for the calls before it; what it started, it started after its decision.
        let start = if has_agent { call.begun } else { call.begun.max(took) }.min(at);
        let mut span = self.span_of_call(result, &call, start);
        made.span = span.id;
        if let Some((code, sandboxed)) = command {
            span.set_some("process.exit.code", code.map(i64::from));
            span.set("qwen.sandboxed", sandboxed);
        }
        let class = match (call.is_denied, result.is_error) {
            (true, _) => Some("denied"),
            (false, true) => Some("tool_error"),
            (false, false) => None,
        };
        let mut about = vec![KeyValue::new("gen_ai.tool.name", result.tool.clone())];
        if let Some(class) = class {
            span.fail(class);
            about.push(KeyValue::new("error.type", class));
        }
        made.measurements.push(Measurement::tool_call(about));
        self.end(span, at, made);
    }

    /// Returns the span of a call, as the conventions for tools and for MCP have it.
    fn span_of_call(&self, result: &ToolResult, call: &Call, start: SystemTime) -> Open {
        let id = self.trace.call(&result.call_id);
        let server = server_and_tool(&result.tool);
        let (name, kind) = match server {
            Some((_, tool)) => (format!("tools/call {tool}"), SpanKind::Client),
            None => (format!("execute_tool {}", result.tool), SpanKind::Internal),
        };
        let mut span = Open::new(id, Some(call.agent), name, kind, start);
        span.set("gen_ai.operation.name", "execute_tool");
        match server {
            Some((server, tool)) => {
                span.set("mcp.method.name", "tools/call");
                span.set("gen_ai.tool.name", tool.to_owned());
                span.set("qwen.mcp.server", server.to_owned());
                span.set("gen_ai.tool.type", "extension");
            }
            None => {
                span.set("gen_ai.tool.name", result.tool.clone());
                span.set("gen_ai.tool.type", "function");
            }
        }
        span.set("gen_ai.tool.call.id", result.call_id.clone());
        if let Some(decision) = &call.decision {
            span.set("qwen.policy.decision", if decision.allowed && !call.is_denied { "allow" } else { "deny" });
            span.set_some("qwen.policy.rule", decision.rule.clone());
            span.set("qwen.sandbox.tier", decision.tier.clone());
        }
        if self.contents {
            span.set("gen_ai.tool.call.arguments", call.arguments.clone());
            span.set("gen_ai.tool.call.result", cut(&result.content));
        }
        span
    }

    /// Makes the agent of this call the one that works: opens it with its first turn, ends it when its parent goes on.
    pub(super) fn enter(&mut self, parent: Option<&str>, at: SystemTime, made: &mut Made) {
        match parent {
            Some(call) if self.tasks.iter().any(|task| task.call == call) => {
                while self.tasks.last().is_some_and(|task| task.call != call) {
                    self.leave(at, made);
                }
            }
            Some(call) => {
                let agent = self.agent();
                let known = self.call(call, ToolId::Task.name(), at);
                let name = known.subagent.clone().unwrap_or_else(|| "subagent".to_owned());
                known.agent = agent;
                let (id, parent) = (self.trace.span(&format!("agent {call}")), self.trace.call(call));
                let mut span = Open::new(id, Some(parent), format!("invoke_agent {name}"), SpanKind::Internal, at);
                span.set("gen_ai.operation.name", "invoke_agent");
                span.set("gen_ai.agent.name", name);
                span.set("gen_ai.provider.name", self.about.provider.clone());
                self.tasks.push(Task { call: call.to_owned(), span });
            }
            None => {
                while !self.tasks.is_empty() {
                    self.leave(at, made);
                }
            }
        }
        made.span = self.agent();
    }

    pub(super) fn leave(&mut self, at: SystemTime, made: &mut Made) {
        self.drop_chat(at, made);
        if let Some(task) = self.tasks.pop() {
            self.end(task.span, at, made);
        }
    }
}
