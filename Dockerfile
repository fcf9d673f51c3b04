# For RunPod and any other machine with an NVIDIA GPU; torch brings its own CUDA libraries.
FROM python:3.11-slim-bookworm
# gcc and libc6-dev: Triton compiles a stub in C for every kernel's launcher, and slim images have no compiler.
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends ffmpeg git gcc libc6-dev && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY requirements.txt requirements.lock ./
RUN pip install --no-cache-dir -r requirements.txt -c requirements.lock
COPY . .
ENV PERSONAPLEX_CACHE=/workspace/personaplex HF_HOME=/workspace/huggingface TRITON_CACHE_DIR=/workspace/triton \
    GRADIO_ANALYTICS_ENABLED=False
EXPOSE 7860
# The first start downloads the weights.
HEALTHCHECK --interval=10s --timeout=3s --start-period=15m --retries=3 \
    CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:7860/health/live', timeout=2)"
CMD ["python", "app.py", "--host", "0.0.0.0", "--port", "7860", "--public"]
